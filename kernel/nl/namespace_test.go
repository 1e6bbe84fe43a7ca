package nl_test

import (
	"github.com/svcproxy/svcproxy/kernel/kerneltest"
	"github.com/svcproxy/svcproxy/kernel/nl"
)

func init() { nl.OwnNamespace = kerneltest.NewNamespace }
