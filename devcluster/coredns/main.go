// Coredns is CoreDNS with the five plugins that cluster DNS takes. The ordinary
// build brings some fifty, and with them the libraries of several clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// Also the order in which a query passes them: errors must come before
	// kubernetes to see what goes wrong there.
	dnsserver.Directives = []string{"bind", "health", "ready", "errors", "kubernetes"}
	coremain.Run()
}
