// Package top is a live view of a running svcproxy in a terminal: what is
// connected to which service and backend, how fast that changes, what drains and
// what is wrong.
//
// It only looks, through the status it is given twice: rates are differences of
// two. Frame is pure; Run has the terminal, the keys and the clock.
package top
