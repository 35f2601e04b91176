// Kueue's own controllers for Jobs and ProvisioningRequests, in one process without webhooks. Its program needs certificates in fixed
// folders of the machine, and the API server cannot reach webhooks of a process on the host. Jobs must therefore begin suspended.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	autoscaling "k8s.io/autoscaler/cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configapi "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/config"
	"sigs.k8s.io/kueue/pkg/constants"
	"sigs.k8s.io/kueue/pkg/controller/admissionchecks/provisioning"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/controller/core/indexer"
	"sigs.k8s.io/kueue/pkg/controller/jobframework"
	_ "sigs.k8s.io/kueue/pkg/controller/jobs/job"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/scheduler"
	preemptexpectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/kubeversion"
)

const jobs = "batch/job"

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "kueue:", err)
		os.Exit(1)
	}
}

// withoutWebhooks takes the registrations of webhooks, which nothing calls.
type withoutWebhooks struct{ mux *http.ServeMux }

func (withoutWebhooks) NeedLeaderElection() bool        { return false }
func (withoutWebhooks) Register(string, http.Handler)   {}
func (withoutWebhooks) StartedChecker() healthz.Checker { return healthz.Ping }
func (w withoutWebhooks) WebhookMux() *http.ServeMux    { return w.mux }

func (withoutWebhooks) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func run(ctx context.Context) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, kueue.AddToScheme, configapi.AddToScheme, autoscaling.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	options, settings, err := config.Load(scheme, "")
	if err != nil {
		return err
	}
	options.LeaderElection = false
	options.HealthProbeBindAddress = "0"
	options.PprofBindAddress = "0"
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.WebhookServer = withoutWebhooks{http.NewServeMux()}
	settings.Integrations.Frameworks = []string{jobs}
	metrics.Register()
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	if err != nil {
		return err
	}
	if err := index(ctx, manager); err != nil {
		return err
	}
	if err := control(ctx, manager, &settings); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func index(ctx context.Context, manager ctrl.Manager) error {
	fields := manager.GetFieldIndexer()
	if err := indexer.Setup(ctx, fields); err != nil {
		return err
	}
	if err := provisioning.ServerSupportsProvisioningRequest(manager); err != nil {
		return err
	}
	if err := provisioning.SetupIndexer(ctx, fields); err != nil {
		return err
	}
	return jobframework.SetupIndexes(ctx, fields, jobframework.WithEnabledFrameworks([]string{jobs}))
}

// control adds the controllers of queues, ProvisioningRequests and Jobs, and the scheduler that admits Jobs.
func control(ctx context.Context, manager ctrl.Manager, settings *configapi.Configuration) error {
	expectations := preemptexpectations.New()
	requeuer := qcache.NewRequeuer()
	if err := manager.Add(requeuer); err != nil {
		return err
	}
	cache := schdcache.New(manager.GetClient())
	queues := qcache.NewManager(manager.GetClient(), cache, requeuer, qcache.WithPreemptionExpectations(expectations))
	if name, err := core.SetupControllers(manager, queues, cache, settings, nil, expectations, nil); err != nil {
		return fmt.Errorf("controller %s: %w", name, err)
	}
	requests, err := provisioning.NewController(manager.GetClient(), manager.GetEventRecorderFor("kueue"), nil)
	if err != nil {
		return err
	}
	if err := requests.SetupWithManager(manager); err != nil {
		return err
	}
	versions, err := discovery.NewDiscoveryClientForConfig(manager.GetConfig())
	if err != nil {
		return err
	}
	version := kubeversion.NewServerVersionFetcher(versions)
	if err := version.FetchServerVersion(); err != nil {
		return err
	}
	err = jobframework.SetupControllers(ctx, manager, ctrl.Log,
		jobframework.WithKubeServerVersion(version),
		jobframework.WithEnabledFrameworks([]string{jobs}),
		jobframework.WithManagerName(constants.KueueName),
		jobframework.WithCache(cache),
		jobframework.WithQueues(queues),
		jobframework.WithManagedJobsNamespaceSelector(labels.Everything()),
	)
	if err != nil {
		return err
	}
	go queues.CleanUpOnContext(ctx)
	go cache.CleanUpOnContext(ctx)
	return manager.Add(scheduler.New(queues, cache, manager.GetClient(), manager.GetEventRecorderFor(constants.AdmissionName),
		scheduler.WithPreemptionExpectations(expectations)))
}
