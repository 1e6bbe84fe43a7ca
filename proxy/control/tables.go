package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/svcproxy/svcproxy/proxy/cli"
	"github.com/svcproxy/svcproxy/sources"
	"github.com/svcproxy/svcproxy/sources/file"
)

// maxBodies is how many tables arrive at the same time: each may have file.MaxSize bytes.
const maxBodies = 4

// TableSet is the answer to a change of a table. Its JSON form is stable.
type TableSet struct {
	Table    file.Stored `json:"table"`
	Warnings []string    `json:"warnings"`           // never null
	Reloaded *Reloaded   `json:"reloaded,omitempty"` // with wait=1
}

// TableChange is a table that was set or removed.
type TableChange struct {
	Name string
	Text string // what happened and by whom, for people
	Wait bool   // the client waits until it is served
}

// mayChangeTables returns who asks, if that user may change tables. A refused body is not read.
func (s *Server) mayChangeTables(w http.ResponseWriter, r *http.Request) (by string, ok bool) {
	cred, known := r.Context().Value(peerKey{}).(*syscall.Ucred)
	if !known || cred.Uid != 0 && !s.MembersSetTables() {
		w.Header().Set("Connection", "close")
		http.Error(w, "only root may do that, unless svcproxy.toml has control.tables = true", http.StatusForbidden)
		return "", false
	}
	return userName(cred.Uid), true
}

// expect reads what a change counts on: If-Match with a digest, or If-None-Match: *. Anything else there is refused,
// since a client that counts on something must not be misunderstood.
func expect(w http.ResponseWriter, h http.Header) (want file.Expect, ok bool) {
	match, none := h.Values("If-Match"), h.Values("If-None-Match")
	if len(match) > 0 {
		want.Digest = strings.Trim(match[0], `"`)
	}
	want.Absent = len(none) > 0
	if len(match) > 1 || len(match) == 1 && (want.Digest == "" || want.Digest == "*") || want.Absent && none[0] != "*" {
		w.Header().Set("Connection", "close")
		http.Error(w, "If-Match wants one digest, and If-None-Match wants *", http.StatusBadRequest)
		return want, false
	}
	return want, true
}

func tableError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	rejected, refused := errors.AsType[*sources.RejectedError](err)
	switch {
	case errors.Is(err, file.ErrNoTable):
		code = http.StatusNotFound
	case errors.Is(err, file.ErrChanged):
		code = http.StatusPreconditionFailed
	case refused:
		var lines []string
		for _, p := range rejected.Problems {
			lines = append(lines, p.Error())
		}
		http.Error(w, strings.Join(lines, "\n"), http.StatusUnprocessableEntity)
		return
	case errors.Is(err, file.ErrName):
		code = http.StatusBadRequest
	case tooLarge(err):
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, err.Error(), code)
}

func tooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

func (s *Server) listTables(w http.ResponseWriter, _ *http.Request) {
	all, err := s.Tables.List()
	if err != nil {
		tableError(w, err)
		return
	}
	answer(w, all)
}

func (s *Server) getTable(w http.ResponseWriter, r *http.Request) {
	text, stored, err := s.Tables.Get(r.PathValue("name"))
	if err != nil {
		tableError(w, err)
		return
	}
	w.Header().Set("ETag", `"`+stored.Digest+`"`)
	w.Header().Set("Content-Type", "application/toml")
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLimit))
	w.Write(text) // an error means that the client left
}

func (s *Server) putTable(w http.ResponseWriter, r *http.Request) {
	by, may := s.mayChangeTables(w, r)
	if !may {
		return
	}
	want, ok := expect(w, r.Header)
	if !ok {
		return
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(writeLimit))
	stored, warnings, err := s.store(w, r, want)
	if err != nil {
		tableError(w, err)
		return
	}
	w.Header().Set("ETag", `"`+stored.Digest+`"`)
	text := "table " + stored.Name + " set by " + by + ": " + sources.Count(stored.Services, "service")
	s.tableChanged(w, r, TableSet{Table: stored, Warnings: append([]string{}, warnings...)}, text)
}

// store reads a table and stores it. A few do so at the same time.
func (s *Server) store(w http.ResponseWriter, r *http.Request, want file.Expect) (file.Stored, []string, error) {
	select {
	case s.bodies <- struct{}{}:
		defer func() { <-s.bodies }()
	case <-time.After(writeLimit):
		return file.Stored{}, nil, errors.New("too many tables arrive")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, file.MaxSize))
	if err != nil {
		return file.Stored{}, nil, err
	}
	return s.Tables.Put(r.PathValue("name"), text, want)
}

func (s *Server) removeTable(w http.ResponseWriter, r *http.Request) {
	by, ok := s.mayChangeTables(w, r)
	if !ok {
		return
	}
	want, ok := expect(w, r.Header)
	if !ok {
		return
	}
	name := r.PathValue("name")
	if err := s.Tables.Remove(name, want); err != nil {
		tableError(w, err)
		return
	}
	s.tableChanged(w, r, TableSet{Table: file.Stored{Name: name, Changed: time.Now().UTC()}, Warnings: []string{}},
		"table "+name+" removed by "+by)
}

// tableChanged tells the daemon, which waits until the change is served if the client wants that, and answers. A text
// that was there already is no change.
func (s *Server) tableChanged(w http.ResponseWriter, r *http.Request, done TableSet, text string) {
	change := TableChange{Name: done.Table.Name, Text: text, Wait: r.URL.Query().Get("wait") == "1"}
	if !done.Table.Unchanged || change.Wait {
		if done.Table.Unchanged {
			change.Text = ""
		}
		ctx, cancel := context.WithTimeout(r.Context(), reloadLimit)
		defer cancel()
		done.Reloaded = s.TableChanged(ctx, change)
	}
	answer(w, done)
}

// Tables lists the tables.
func (c Client) Tables(ctx context.Context) (all []file.Stored, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.ask(ctx, http.MethodGet, "/v1/tables", func(r io.Reader) error { return json.NewDecoder(r).Decode(&all) })
	return all, tableExit(err)
}

// TableText returns a table as TOML, with its digest.
func (c Client) TableText(ctx context.Context, name string) (text []byte, digest string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	err = c.request(ctx, http.MethodGet, tablePath(name, false), func(r *http.Response) (err error) {
		digest = strings.Trim(r.Header.Get("ETag"), `"`)
		text, err = io.ReadAll(r.Body)
		return err
	})
	return text, digest, tableExit(err)
}

// SetTable sets a table. With wait it returns when the table is served.
func (c Client) SetTable(ctx context.Context, name string, text []byte, want file.Expect, wait bool) (TableSet, error) {
	return c.changeTable(ctx, http.MethodPut, name, text, want, wait)
}

// RemoveTable removes a table. With wait it returns when its services are gone.
func (c Client) RemoveTable(ctx context.Context, name string, want file.Expect, wait bool) (TableSet, error) {
	return c.changeTable(ctx, http.MethodDelete, name, nil, want, wait)
}

func (c Client) changeTable(
	ctx context.Context, method, name string, text []byte, want file.Expect, wait bool,
) (done TableSet, err error) {
	ctx, cancel := context.WithTimeout(ctx, reloadLimit+askLimit)
	defer cancel()
	header := http.Header{}
	if want.Digest != "" {
		header.Set("If-Match", `"`+want.Digest+`"`)
	}
	if want.Absent {
		header.Set("If-None-Match", "*")
	}
	err = c.send(ctx, method, tablePath(name, wait), header, bytes.NewReader(text), func(r *http.Response) error {
		return json.NewDecoder(r.Body).Decode(&done)
	})
	return done, tableExit(err)
}

func tablePath(name string, wait bool) string {
	path := "/v1/tables/" + url.PathEscape(name)
	if wait {
		path += "?wait=1"
	}
	return path
}

// tableExit gives the refusal of a table its exit code: Config if its text is wrong.
func tableExit(err error) error {
	refused, ok := errors.AsType[*refusedError](err)
	if !ok {
		return err
	}
	e := refused.exit()
	switch refused.code {
	case http.StatusUnprocessableEntity:
		var lines []error
		for line := range strings.Lines(refused.text) {
			lines = append(lines, errors.New(strings.TrimSuffix(line, "\n")))
		}
		e = &cli.Error{Code: cli.Config, Err: errors.Join(lines...), Hint: "the table stays as it was"}
	case http.StatusPreconditionFailed:
		e.Hint = "svcproxy table show has it"
	case http.StatusForbidden:
		e.Code = cli.Permission
	}
	return e
}
