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

// mayChangeTables returns who asks, if that user may set and see tables. They may have secrets, as files have.
func (s *Server) mayChangeTables(w http.ResponseWriter, r *http.Request) (by string, ok bool) {
	cred, known := r.Context().Value(peerKey{}).(*syscall.Ucred)
	if !known || cred.Uid != 0 && !s.MembersSetTables() {
		http.Error(w, "only root may do that, unless svcproxy.toml has control.tables = true", http.StatusForbidden)
		return "", false
	}
	return userName(cred.Uid), true
}

// expect reads what a change counts on: If-Match with a digest, or If-None-Match: *.
func expect(h http.Header) file.Expect {
	return file.Expect{Digest: strings.Trim(h.Get("If-Match"), `"`), Absent: h.Get("If-None-Match") == "*"}
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
	}
	http.Error(w, err.Error(), code)
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
	if _, ok := s.mayChangeTables(w, r); !ok {
		return
	}
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
	by, ok := s.mayChangeTables(w, r)
	if !ok {
		return
	}
	select {
	case s.bodies <- struct{}{}:
		defer func() { <-s.bodies }()
	case <-r.Context().Done():
		return
	}
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(writeLimit))
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, file.MaxSize))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	stored, warnings, err := s.Tables.Put(r.PathValue("name"), text, expect(r.Header))
	if err != nil {
		tableError(w, err)
		return
	}
	w.Header().Set("ETag", `"`+stored.Digest+`"`)
	s.tableChanged(w, r, TableSet{Table: stored, Warnings: append([]string{}, warnings...)},
		"table "+stored.Name+" set by "+by+": "+sources.Count(stored.Services, "service"))
}

func (s *Server) removeTable(w http.ResponseWriter, r *http.Request) {
	by, ok := s.mayChangeTables(w, r)
	if !ok {
		return
	}
	name := r.PathValue("name")
	if err := s.Tables.Remove(name, expect(r.Header)); err != nil {
		tableError(w, err)
		return
	}
	s.tableChanged(w, r, TableSet{Table: file.Stored{Name: name, Changed: time.Now().UTC()}, Warnings: []string{}},
		"table "+name+" removed by "+by)
}

// tableChanged tells the daemon, waits until the change is served if the client wants that, and answers.
func (s *Server) tableChanged(w http.ResponseWriter, r *http.Request, done TableSet, text string) {
	s.TableChanged(text)
	if r.URL.Query().Get("wait") == "1" {
		ctx, cancel := context.WithTimeout(r.Context(), reloadLimit)
		defer cancel()
		reloaded, err := s.Reload(ctx)
		if err != nil {
			reloaded.Failed = append(reloaded.Failed, err.Error())
		}
		done.Reloaded = &reloaded
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
