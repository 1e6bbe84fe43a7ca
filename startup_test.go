package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoExpressionsBeforeMain: every command initialises every package, so a regular expression in a package's variable
// costs all of them. Eight took a million instructions, 4 % of `svcproxy version`. sync.OnceValue compiles one where it is used.
func TestNoExpressionsBeforeMain(t *testing.T) {
	files := token.NewFileSet()
	for _, root := range []string{"kernel", "proxy", "sources", "packaging/docs"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.VAR {
					ast.Inspect(d, func(n ast.Node) bool { return !compiles(t, files, n) })
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// compiles reports a call of regexp.MustCompile, and returns true where there is none below: in a function.
func compiles(t *testing.T, files *token.FileSet, n ast.Node) (done bool) {
	switch n := n.(type) {
	case *ast.FuncLit:
		return true
	case *ast.SelectorExpr:
		if p, ok := n.X.(*ast.Ident); ok && p.Name == "regexp" && n.Sel.Name == "MustCompile" {
			t.Errorf("%v: compiled before main", files.Position(n.Pos()))
		}
	}
	return false
}
