package iptables

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/svcproxy/svcproxy/kernel"
)

// lockTries is how often Try waits for the lock.
const lockTries = 4

// Try reports whether the tools and the kernel take rules. It writes each chain under a name that nothing
// jumps to, and removes it again, even if ctx ends meanwhile. If a rule is refused the error is a
// *kernel.MissingError that names the rule. A lock that another program holds for longer than lockTries times
// lockWait is another error: nothing is missing. Chains of a family that this machine lacks are left out.
//
// Only writing tells: iptables-restore --test of the nf_tables back end does not ask the kernel.
func (t *Tables) Try(ctx context.Context, chains []kernel.Chain) error {
	for _, f := range t.families {
		for _, c := range chains {
			if c.Family != f.Family {
				continue
			}
			if err := t.try(ctx, f, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tables) try(ctx context.Context, f *family, c kernel.Chain) error {
	f.cached = false
	restore := func(ctx context.Context, text string) error {
		for tries := 1; ; tries++ {
			t.writers.Add(1)
			_, err := t.run(ctx, text, f.tool.Name+"-restore", "--noflush", fmt.Sprintf("--wait=%d", lockWait))
			var exit *ExitError
			if !errors.As(err, &exit) || !exit.lockHeld() || tries == lockTries {
				return err
			}
		}
	}
	err := restore(ctx, fmt.Sprintf("*%s\n%sCOMMIT\n", c.Table, c.Text()))
	if err == nil {
		return restore(context.WithoutCancel(ctx), fmt.Sprintf("*%s\n:%s - [0:0]\n-X %s\nCOMMIT\n", c.Table, c.Name, c.Name))
	}
	var exit *ExitError
	if !errors.As(err, &exit) || exit.lockHeld() {
		return err
	}
	rule := "its rules"
	if m := badLine().FindStringSubmatch(exit.Stderr); m != nil {
		// Line 1 is the table, line 2 the chain.
		rules := strings.Split(c.Rules, "\n")
		if n, err := strconv.Atoi(m[1]); err == nil && n >= 3 && n-3 < len(rules) {
			rule = strconv.Quote(rules[n-3])
		}
	}
	return &kernel.MissingError{
		What: fmt.Sprintf("%s does not take %s in table %s: %v", f.tool.Name, rule, c.Table, exit),
		Hint: "load or install the kernel's modules for iptables (xt_*, nft_compat): their names are those of the rule's " +
			"matches and target",
	}
}
