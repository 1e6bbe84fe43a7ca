package apiserver

import (
	"errors"
	"io/fs"
	"slices"
)

// Missing reports whether an error of Check is only that files are not there: the kubeconfig, or those that it names.
func Missing(err error) bool {
	var parts []error
	switch e := err.(type) {
	case interface{ Errors() []error }: // of k8s.io/apimachinery
		parts = e.Errors()
	case interface{ Unwrap() []error }:
		parts = e.Unwrap()
	case interface{ Unwrap() error }:
		return errors.Is(err, fs.ErrNotExist) && Missing(e.Unwrap())
	default:
		return errors.Is(err, fs.ErrNotExist)
	}
	return len(parts) > 0 && !slices.ContainsFunc(parts, func(e error) bool { return !Missing(e) })
}
