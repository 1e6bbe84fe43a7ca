package checker

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/svcproxy/svcproxy/kernel/statefile"
	"github.com/svcproxy/svcproxy/proxy/health"
)

const (
	// agentsFile has what agents have said, in stateDir: a restart must not forget a drain.
	agentsFile = "agents.json"
	// maxAgentsFile bounds it, in bytes: 50,000 agents with long reasons.
	maxAgentsFile = 16 << 20
	// sharePeriod is how long a share of the weight may wait to be written. Many agents say another one each time.
	sharePeriod = 10 * time.Second
)

// agents is what agents have said. The checker's lock is for it.
type agents struct {
	before health.Agents // of an earlier run, until the tables of all sources are there
	kept
}

// Kept is what stateDir keeps for the next start.
type Kept struct {
	Orders health.Overrides
	Agents health.Agents
}

// ReadKept returns what stateDir keeps. What is not well formed is left out, with an error.
func ReadKept(stateDir string) (Kept, error) {
	orders, err := ReadOrders(stateDir)
	said, err2 := readAgents(stateDir)
	return Kept{orders, said}, errors.Join(err, err2)
}

func readAgents(stateDir string) (health.Agents, error) {
	path := filepath.Join(stateDir, agentsFile)
	data, err := statefile.Read(path, maxAgentsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all health.Agents
	if err == nil {
		all, err = health.ParseAgents(data)
	}
	if err != nil {
		err = fmt.Errorf("what agents said before the restart does not count: %s: %w", path, err)
	}
	return all, err
}

// heard notes that the file is to be written, if an answer changed what its agent has said. The lock is held.
func (c *Checker) heard(was, is health.Said, now time.Time) {
	if was == is {
		return
	}
	due := now
	if was.Percent = is.Percent; was == is {
		due = now.Add(sharePeriod)
	}
	c.agents.write(due)
}
