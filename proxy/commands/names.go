package commands

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/proxy/status"
)

// namesPatience is how long the completion of a shell waits for the daemon.
const namesPatience = 2 * time.Second

// Names is the hidden command names, which the completion scripts call.
func Names(e *Env) cli.Command {
	r, what := remote{e}, []string{"services", "targets"}
	return cli.Command{
		Name: "names", Args: "services|targets", Short: "print what the running svcproxy has, for completion", Hidden: true,
		Values: what,
		Run: func(ctx context.Context, args []string) error {
			if len(args) != 1 || !slices.Contains(what, args[0]) {
				return cli.Errorf(cli.Usage, "", "names wants one of %s, have %s", strings.Join(what, ", "), cli.Given(args))
			}
			ctx, cancel := context.WithTimeout(ctx, namesPatience)
			defer cancel()
			st, err := r.client().Status(ctx, args[0] == "targets")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(e.Out, strings.Join(names(st, args[0] == "targets"), "\n"))
			return err
		},
	}
}

// wordCharacters are those of names of services and of addresses.
const wordCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-./:"

// names are the names of services, or the endpoints as orders name them: by address, and by service and
// address. A shell may evaluate a word with other characters than theirs, as that of root, so such a word of
// the daemon is left out.
func names(st status.Status, targets bool) []string {
	found := map[string]bool{}
	for _, s := range st.Services {
		name := s.Name
		if !targets {
			found[name] = true
		}
		for _, e := range s.Endpoints {
			if targets {
				found[e.Address.Addr().String()], found[name+"/"+e.Address.Addr().String()] = true, true
			}
		}
	}
	maps.DeleteFunc(found, func(word string, _ bool) bool { return strings.Trim(word, wordCharacters) != "" })
	return slices.Sorted(maps.Keys(found))
}
