package mode

import (
	"fmt"

	"github.com/svcproxy/svcproxy/proxy/frontend"
)

// NoForward says what of f is forwarded otherwise than configured in a mode that can only masquerade, a line each.
func NoForward(f *frontend.Frontends, mode string) (lines []string) {
	if m := f.Config.Forward; m.Unchanged() {
		lines = append(lines, fmt.Sprintf("mode %s cannot forward by %q and masquerades", mode, m))
	}
	for i := range f.Table.Services.Len() {
		if s := f.Table.Services.At(i); s.Type.Serves() && s.Forward.Unchanged() {
			lines = append(lines, fmt.Sprintf("%s: mode %s cannot forward by %q and masquerades", s.DisplayName(), mode,
				s.Forward))
		}
	}
	return lines
}
