// Package screen is what a terminal, or a pipe, is shown: columns that line up,
// colours where they are wanted, and amounts that fit.
//
// It knows nothing of what is shown. All but the questions about a terminal are
// pure functions.
package screen
