package health

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"unicode/utf8"
)

const (
	agentsVersion = 1 // the schema of the JSON form
	maxShare      = 25600
	maxSaid       = 200 // bytes of a reason
)

// agentJSON is one of Agents in their JSON form.
type agentJSON struct {
	Agent     netip.AddrPort `json:"agent"`
	Send      string         `json:"send,omitempty"`
	SendBytes []byte         `json:"sendBytes,omitempty"` // instead of Send, if that is no UTF-8
	Down      string         `json:"down,omitempty"`
	Ask       string         `json:"ask,omitempty"`
	Percent   *uint16        `json:"percent,omitempty"`
}

type agentsJSON struct {
	Version int         `json:"version"`
	Agents  []agentJSON `json:"agents"`
}

// MarshalJSON returns the content of agents.json.
func (a Agents) MarshalJSON() ([]byte, error) {
	j := agentsJSON{Version: agentsVersion, Agents: make([]agentJSON, 0, len(a))}
	for agent, said := range a {
		one := agentJSON{Agent: agent.Addr, Send: agent.Send, Down: said.Down, Ask: said.Ask.String()}
		if !utf8.ValidString(one.Send) {
			one.Send, one.SendBytes = "", []byte(one.Send)
		}
		if said.HasPercent {
			one.Percent = &said.Percent
		}
		j.Agents = append(j.Agents, one)
	}
	slices.SortFunc(j.Agents, func(x, y agentJSON) int {
		return cmp.Or(x.Agent.Compare(y.Agent), cmp.Compare(x.Send, y.Send), bytes.Compare(x.SendBytes, y.SendBytes))
	})
	return json.Marshal(j)
}

// ParseAgents reads the content of agents.json. Its error quotes nothing of it.
func ParseAgents(data []byte) (Agents, error) {
	var file agentsJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, errors.New("not the JSON of what agents said")
	}
	if file.Version != agentsVersion {
		return nil, fmt.Errorf("%w %d, want %d", errVersion, file.Version, agentsVersion)
	}
	agents := make(Agents, len(file.Agents))
	for _, one := range file.Agents {
		said := Said{Down: one.Down, HasPercent: one.Percent != nil}
		if said.HasPercent {
			said.Percent = *one.Percent
		}
		ask := slices.Index(askWords[:], one.Ask)
		if ask < 0 || !one.Agent.IsValid() || said.Percent > maxShare || len(said.Down) > maxSaid {
			return nil, errors.New("a value that no agent can have said")
		}
		said.Ask = Ask(ask)
		agents[Agent{one.Agent, one.Send + string(one.SendBytes)}] = said
	}
	return agents, nil
}
