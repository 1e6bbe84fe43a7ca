package fields

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// DurationIn is a duration from least to most.
func DurationIn(least, most time.Duration) Type[time.Duration] {
	return DurationOf(func(text string, d time.Duration) error {
		if d < least || d > most {
			return fmt.Errorf("%q must be %s to %s", text, printDuration(least), printDuration(most))
		}
		return nil
	})
}

// FloatIn is a Float from least to most.
func FloatIn(least, most float64) Type[float64] {
	t := Float
	t.Read = func(n Node) (float64, error) {
		f, err := Float.Read(n)
		if err == nil && (f < least || f > most) {
			err = fmt.Errorf("is %v: must be %v to %v", f, least, most)
		}
		return f, err
	}
	return t
}

// Amount is a number of things, or a percentage of all of them.
type Amount struct {
	N       int
	Percent bool
}

// AmountOf is a number, or a percentage in quotes.
var AmountOf = Type[Amount]{
	Kind: KindAmount,
	Read: func(n Node) (Amount, error) {
		if text, ok := n.Text(); ok {
			digits, isPercent := strings.CutSuffix(text, "%")
			i, err := strconv.Atoi(digits)
			if !isPercent || err != nil || digits != strconv.Itoa(i) || i < 0 || i > 100 {
				return Amount{}, fmt.Errorf(`%q is not a number, or a percentage such as "50%%" from 0 to 100`, text)
			}
			return Amount{i, true}, nil
		}
		switch i, ok := n.Integer(); {
		case !ok:
			return Amount{}, n.Mistyped(`a number, or a percentage such as "50%"`)
		case i < 0 || i > math.MaxInt32:
			return Amount{}, fmt.Errorf("is %d: must be 0 or more", i)
		default:
			return Amount{N: int(i)}, nil
		}
	},
	Write: func(a Amount) any {
		if a.Percent {
			return strconv.Itoa(a.N) + "%"
		}
		return int64(a.N)
	},
}
