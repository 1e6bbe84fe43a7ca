package convert

import (
	"slices"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/sources"
)

// Keywords with another number of words than two, their own included. Those of manyWords have any number.
var (
	manyWords = []string{"lvs_method", "lb_kind", "sorry_server_lvs_method", "notify_up", "notify_down", "quorum_up",
		"quorum_down", "misc_path", "user", "status_code", "payload", "require_reply", "regex", "regex_options",
		"regex_stack"}
	threeWords = []string{"real_server", "sorry_server"}
	oneWord    = []string{"url", "host", "ops", "hashed", "flag-1", "flag-2", "flag-3", "sh-port", "sh-fallback",
		"mh-port", "mh-fallback", "ha_suspend", "omega", "sorry_server_inhibit", "misc_dynamic", "enable_sni",
		"regex_no_match"}
	withBlock = []string{"real_server", "url", "host"}
)

// extra notes the words and the block of a statement that keepalived has no meaning for.
func (v *virtual) extra(b *statement) {
	name, most := b.words[0], 2
	switch {
	case slices.Contains(manyWords, name):
		return
	case slices.Contains(threeWords, name):
		most = 3
	case slices.Contains(oneWord, name), slices.Contains(checkers, name):
		most = 1
	}
	if len(b.words) > most {
		v.note(b.at, "%s: words that have no meaning stand behind it", plain(name))
	}
	if len(b.block) > 0 && !slices.Contains(withBlock, name) && !slices.Contains(checkers, name) {
		v.note(b.at, "%s: a block in braces has no meaning here", plain(name))
	}
}

// on reports whether a switch is on. A switch without a word is.
func on(b *statement) bool {
	return !slices.Contains([]string{"off", "false", "no"}, strings.ToLower(b.value(1)))
}

// defaults takes what holds for the real servers above as well as below it.
func (v *virtual) defaults(s *statement) {
	protocol, method, bare := false, false, false
	for _, b := range s.block {
		switch b.words[0] {
		case "protocol":
			protocol = true
		case "lvs_method", "lb_kind":
			method = true
			v.method(b)
		case "real_server":
			own := func(r *statement) bool { return r.words[0] == "lvs_method" || r.words[0] == "lb_kind" }
			bare = bare || !slices.ContainsFunc(b.block, own)
		case "weight":
			n, err := strconv.ParseUint(b.value(1), 10, 31)
			if err != nil || n == 0 {
				v.note(b.at, "%s: want a number", title(b))
				continue
			}
			v.weight = uint32(n)
		}
	}
	if !method && bare {
		v.forward = sources.Masquerade // keepalived's default
	}
	if !protocol && v.mark == 0 {
		v.noteChange(s.at, "no protocol: taken as %s; keepalived since 2017 takes UDP", sources.TCP)
		v.noProtocol = true
	}
}

// replaced reports whether a later statement of the block has the same keyword.
func replaced(s, block *statement) bool {
	i := slices.Index(block.block, s)
	return slices.ContainsFunc(block.block[i+1:], func(o *statement) bool { return o.words[0] == s.words[0] })
}
