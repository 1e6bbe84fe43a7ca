package config

// Poll is Follow without events.
var Poll = (*Current).poll
