package status

import "flag"

// Update is set by -update: tests then write what they would otherwise compare.
var Update = flag.Bool("update", false, "rewrite what the scenarios want, and the frames of top")
