// Package explain says what this node does with one packet, step by step, and why: how it
// comes in, which rules and virtual server it meets, which backends can get it, and which
// way the reply takes. Its text begins and ends with one sentence.
//
// It is pure, apart from the questions that it asks Facts.Network. Package kernel/trace
// follows the packet through our own rules. Rules of other programs are followed if all of their
// matches are understood; of others it says that they may drop the packet. What neither can know
// is not guessed: listeners on the node, and how other hosts route.
package explain
