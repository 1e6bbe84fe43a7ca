// Package explain says what this node does with one packet, step by step, and why: how it
// comes in, which rules and virtual server it meets, which backends can get it, and which
// way the reply takes. Its text begins and ends with one sentence.
//
// It is pure, apart from the questions that it asks Facts.Network. Package kernel/packet
// follows the packet through our own rules, and judges the base chains of other programs at each hook.
// What cannot be judged is a condition in the sentence. What neither can know is not guessed:
// listeners on the node, and how other hosts route.
package explain
