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

// runEtcd takes the flags that the tests give to etcd's own binary too. Without fsync: the data is thrown away with the test.
func runEtcd(args []string) {
	config := embed.NewConfig()
	config.LogLevel = "warn"
	flags := flag.NewFlagSet("etcd", flag.ExitOnError)
	flags.StringVar(&config.Dir, "data-dir", "", "folder for the data")
	flags.BoolVar(&config.UnsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk")
	flags.StringVar(&config.InitialCluster, "initial-cluster", "", "the one member, such as default=http://127.0.0.1:2380")
	for name, urls := range map[string]*[]url.URL{
		"listen-client-urls":          &config.ListenClientUrls,
		"advertise-client-urls":       &config.AdvertiseClientUrls,
		"listen-peer-urls":            &config.ListenPeerUrls,
		"initial-advertise-peer-urls": &config.AdvertisePeerUrls,
	} {
		flags.Func(name, "one URL, such as http://127.0.0.1:2379", func(text string) error {
			address, err := url.Parse(text)
			if err == nil {
				*urls = []url.URL{*address}
			}
			return err
		})
	}
	_ = flags.Parse(args)

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

func fail(message string) {
	fmt.Fprintln(os.Stderr, message)
	os.Exit(1)
}
