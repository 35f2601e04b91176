// Command controlplane is a whole Kubernetes control plane in one binary: its first argument picks the
// component, the rest are that component's own flags. Tests and the demo start one process of each.
package main

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler [flags]")
	}
	name := os.Args[1]
	os.Args = append([]string{name}, os.Args[2:]...)
	if name == "etcd" {
		runEtcd(os.Args[1:])
		return
	}
	newCommand, known := components[name]
	if !known {
		fail("controlplane: unknown component " + name)
	}
	os.Exit(cli.Run(newCommand()))
}

// runEtcd serves clients over plain HTTP and skips fsync: the data is thrown away with the test.
func runEtcd(args []string) {
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	dir := flags.String("data-dir", "", "folder for the data")
	client := flags.String("listen-client-url", "", "client URL, such as http://127.0.0.1:2379")
	peer := flags.String("listen-peer-url", "", "peer URL, such as http://127.0.0.1:2380")
	_ = flags.Parse(args)

	config := embed.NewConfig()
	config.Dir = *dir
	config.UnsafeNoFsync = true
	config.LogLevel = "warn"
	config.ListenClientUrls, config.AdvertiseClientUrls = parse(*client), parse(*client)
	config.ListenPeerUrls, config.AdvertisePeerUrls = parse(*peer), parse(*peer)
	config.InitialCluster = config.Name + "=" + *peer

	server, err := embed.StartEtcd(config)
	if err != nil {
		fail("controlplane etcd: " + err.Error())
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	select {
	case <-signals:
		server.Close()
	case err := <-server.Err():
		fail("controlplane etcd: " + err.Error())
	}
}

func parse(text string) []url.URL {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" {
		fail("controlplane etcd: not a URL: " + text)
	}
	return []url.URL{*address}
}

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}
