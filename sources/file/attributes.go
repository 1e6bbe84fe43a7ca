package file

import (
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/fields"
)

func readSchedulerFlags(s *draft, n node) error {
	s.SchedulerFlags = sources.FlagsGiven
	return s.d.list(n, `words such as "sh-port"`, func(n node) {
		word, err := fields.String.Read(n)
		if err != nil {
			s.d.refuseValue(n, err)
			return
		}
		f, scheduler, err := sources.ParseSchedulerFlag(word)
		if err != nil {
			s.d.refuseValue(n, err)
			return
		}
		s.SchedulerFlags |= f
		s.flags = append(s.flags, schedulerFlag{n, word, scheduler})
	})
}

// schedulerFlag is a flag as given, and the scheduler that has it.
type schedulerFlag struct {
	at              node
	word, scheduler string
}

// otherFlags refuses flags of another scheduler. Validate refuses flags of one that has none.
func (s *draft) otherFlags() {
	if s.Scheduler != "sh" && s.Scheduler != "mh" {
		return
	}
	for _, f := range s.flags {
		if f.scheduler != s.Scheduler {
			s.d.refuse(f.at, "scheduler %q has no flag %q: its flags are %q", s.Scheduler, f.word,
				(sources.FlagFallback | sources.FlagPort).Words(s.Scheduler))
		}
	}
}

// prefixLength is a number of leading bits from 1 to most. All of them is 0, one client.
func prefixLength(most int) fields.Type[uint8] {
	length := fields.Int(1, most)
	return fields.Type[uint8]{
		Kind: length.Kind, Min: length.Min, Max: length.Max,
		Read: func(n node) (uint8, error) {
			i, err := length.Read(n)
			return uint8(i % most), err
		},
	}
}
