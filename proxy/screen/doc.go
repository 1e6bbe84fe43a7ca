// Package screen formats text for a terminal or a pipe: columns that line up,
// colours, and numbers and durations that fit.
//
// Everything is a pure function, except the questions about a terminal.
package screen
