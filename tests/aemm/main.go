// AWS's own stand-in for the instance metadata service, as an independent reference for what the agent reads there. Its module has
// no program that can be installed from outside; this is one.
package main

import (
	"fmt"
	"os"

	"github.com/aws/amazon-ec2-metadata-mock/pkg/cmd/root"
)

func main() {
	if err := root.NewCmd().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "aemm:", err)
		os.Exit(1)
	}
}
