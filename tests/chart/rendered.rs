//! Objects that the chart renders from values, without installing them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use testbed::controlplane::Account;
use testbed::helm::{Helm, Version};

fn render(version: Version, arguments: &[&str]) -> Result<Vec<DynamicObject>> {
    Helm::find(version)?.render(&Helm::chart("chart"), arguments)
}

fn by_name(objects: &[DynamicObject]) -> Result<BTreeMap<(String, String), Value>> {
    let kind = |object: &DynamicObject| object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    let named = |object: &DynamicObject| -> Result<_> {
        Ok(((kind(object), object.name_any()), serde_json::to_value(object)?))
    };
    objects.iter().map(named).collect()
}

#[test]
fn chart_passes_lint_and_renders_the_same_with_both_helms() -> Result<()> {
    let [values, image] = super::existing();
    let more = ["networkPolicy", "monitoring.prometheusRule", "monitoring.dashboards"];
    let more = more.map(|name| format!("--set=kerf.{name}.enabled=true"));
    let all =
        [&[values.as_str(), &image, "--set=serviceMonitor.enabled=true"][..], &more.each_ref().map(String::as_str)]
            .concat();
    let mut rendered = Vec::new();
    for version in Version::ALL {
        let helm = Helm::find(version)?;
        let rows: [(&str, &[&str]); 3] = [("chart", &all), ("chart", &super::LEAST), ("chart-crd", &[])];
        for (chart, arguments) in rows {
            let path = Helm::chart(chart).display().to_string();
            let lint = [&["lint", "--strict", "--quiet", path.as_str()][..], arguments].concat();
            helm.run(&lint).with_context(|| format!("{version:?} on {chart}"))?;
        }
        rendered.push(by_name(&render(version, &all)?)?);
    }
    ensure!(rendered[0] == rendered[1], "Helm 3 renders {:?}, Helm 4 {:?}", rendered[0], rendered[1]);
    let kinds: BTreeSet<&str> = rendered[0].keys().map(|(kind, _)| kind.as_str()).collect();
    for kind in ["NetworkPolicy", "ServiceMonitor", "PrometheusRule", "ConfigMap"] {
        ensure!(kinds.contains(kind), "{kinds:?}");
    }
    Ok(())
}

/// Headroom is bought past a ResourceQuota, so the role of every namespace's owner includes it only on request.
#[test]
fn chart_aggregates_capacity_buffers_only_on_request() -> Result<()> {
    let rows: [(&[&str], bool); 2] = [(&[], false), (&["--set=kerf.capacityBuffers.aggregateToAdmin=true"], true)];
    for (given, expected) in rows {
        let objects = render(Version::Four, &[&super::LEAST[..], given].concat())?;
        let mut aggregated = BTreeSet::new();
        for (_, role) in by_name(&objects)?.into_iter().filter(|((kind, _), _)| kind == "ClusterRole") {
            if role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"] == "true" {
                let rules = role["rules"].as_array().context("a role without rules")?;
                let resources = rules.iter().flat_map(|rule| rule["resources"].as_array().into_iter().flatten());
                aggregated.extend(resources.filter_map(Value::as_str).map(str::to_owned));
            }
        }
        ensure!(aggregated.contains("nodepools"), "{given:?}: {aggregated:?}");
        ensure!(aggregated.contains("capacitybuffers") == expected, "{given:?}: {aggregated:?}");
    }
    Ok(())
}

/// A client that may patch pods can put an image into them where no admission policy prevents it, so the right is an option.
#[test]
fn chart_grants_packing_and_surge_only_on_request() -> Result<()> {
    let (packing, surge) = ("--set=kerf.packing.enabled=true", "--set=kerf.surge.enabled=true");
    let rows: [(&[&str], &[&str]); 4] = [
        (&[], &[]),
        (&[packing], &["pods", "pods/resize"]),
        (&[surge], &["pods"]),
        (&[packing, surge], &["pods", "pods/resize"]),
    ];
    for (given, expected) in rows {
        let objects = render(Version::Four, &[&super::LEAST[..], given].concat())?;
        let role = super::object(&objects, "ClusterRole", "karpenter-core")?;
        let rules = role["rules"].as_array().context("a role without rules")?;
        let patches =
            rules.iter().filter(|rule| rule["verbs"].as_array().is_some_and(|verbs| verbs.contains(&json!("patch"))));
        let resources = patches.flat_map(|rule| rule["resources"].as_array().into_iter().flatten());
        let optional = |name: &&str| ["pods", "pods/resize"].contains(name);
        let found: BTreeSet<&str> = resources.filter_map(Value::as_str).filter(optional).collect();
        ensure!(found == expected.iter().copied().collect(), "{given:?}: {found:?}");
        let deployment = super::object(&objects, "Deployment", "karpenter")?;
        let environment = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
        for (name, value) in [("PACKING", given.contains(&packing)), ("SURGE", given.contains(&surge))] {
            let variable = json!({"name": name, "value": value.to_string()});
            ensure!(environment.as_array().is_some_and(|all| all.contains(&variable)), "{given:?}: {environment}");
        }
    }
    Ok(())
}

/// An observer may write only its decision log and its Lease, and must not restrict the requests of others.
#[test]
fn chart_grants_an_observer_no_change() -> Result<()> {
    let objects = render(Version::Four, &[&super::LEAST[..], &["--set=kerf.observe=true"]].concat())?;
    let kind = |object: &DynamicObject| object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    let policies = objects.iter().filter(|object| kind(object).starts_with("ValidatingAdmissionPolicy")).count();
    ensure!(policies == 0, "{policies} admission policies");
    let mut rules = Vec::new();
    for (of, name) in [("ClusterRole", "karpenter"), ("ClusterRole", "karpenter-core"), ("Role", "karpenter")] {
        let role = super::object(&objects, of, name)?;
        rules.extend(role["rules"].as_array().context("a role without rules")?.clone());
    }
    ensure!(rules.len() > 10, "only {} rules", rules.len());
    let reads = |rule: &Value| {
        let verbs = rule["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        verbs.into_iter().all(|verb| ["get", "list", "watch"].contains(&verb))
    };
    let own = |rule: &Value| ["configmaps", "leases"].iter().any(|own| rule["resources"] == json!([own]));
    let wrong = rules.iter().find(|rule| !reads(rule) && !own(rule));
    ensure!(wrong.is_none(), "{wrong:?}");
    let lease = rules.iter().any(|rule| rule["resourceNames"] == json!(["kerf-observer"]));
    ensure!(lease, "no right on the Lease of observers");
    let deployment = super::object(&objects, "Deployment", "karpenter")?;
    let environment = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let observes = json!({"name": "OBSERVE", "value": "true"});
    ensure!(environment.as_array().is_some_and(|all| all.contains(&observes)), "{environment}");
    Ok(())
}

/// Returns the rules of the role with this name in a page of the documentation.
fn documented_rules(page: &str, role: &str) -> Result<Vec<Value>> {
    for block in page.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap_or_default();
        let found: Value = serde_saphyr::from_str(text)?;
        if found["metadata"]["name"] == role {
            return Ok(found["rules"].as_array().context("a role without rules")?.clone());
        }
    }
    anyhow::bail!("the page has no role {role}")
}

#[test]
fn chart_renders_the_page_only_on_request_with_the_documented_rights() -> Result<()> {
    let without = render(Version::Four, &super::LEAST)?;
    ensure!(super::object(&without, "Service", "karpenter-page").is_err(), "the page is off by default");
    let given = ["--set=kerf.page.enabled=true", "--set=kerf.page.image.repository=registry.example/kerf-cli"];
    let objects = render(Version::Four, &[&super::LEAST[..], &given].concat())?;
    let rules = |kind: &str| Ok::<_, anyhow::Error>(super::object(&objects, kind, "karpenter-page")?["rules"].clone());
    let live = include_str!("../../docs/live.md");
    ensure!(rules("ClusterRole")? == json!(documented_rules(live, "kerf-reader")?), "{}", rules("ClusterRole")?);
    let log = documented_rules(include_str!("../../docs/decision-log.md"), "kerf-log-reader")?;
    let mut names = log[0]["resourceNames"].as_array().context("no names")?.clone();
    names.insert(0, json!("kerf-market"));
    let maps = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": names}]);
    ensure!(rules("Role")? == maps, "{}", rules("Role")?);

    // The objects of the controller must not select the pod of the page.
    let deployment = super::object(&objects, "Deployment", "karpenter-page")?;
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    ensure!(super::object(&objects, "Service", "karpenter-page")?["spec"]["selector"] == *labels, "{labels}");
    let own = super::object(&objects, "PodDisruptionBudget", "karpenter")?["spec"]["selector"]["matchLabels"].clone();
    ensure!(own["app.kubernetes.io/name"] != labels["app.kubernetes.io/name"], "{own} {labels}");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    ensure!(container["image"] == "registry.example/kerf-cli:0.1.0", "{container}");
    let arguments = ["ui", "--live", "--namespace", "kube-system", "--listen", "0.0.0.0:8877", "--interval", "30"];
    ensure!(container["args"] == json!(arguments), "{container}");
    Ok(())
}

/// Control planes of tests and demo read the chart's RBAC from a file, so that they need no Helm.
#[test]
fn rights_of_control_planes_match_rbac_of_the_chart() -> Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testbed/controlplane");
    for account in Account::ALL {
        let (path, rendered) = (folder.join(account.file()), account.render()?);
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, &rendered)?;
        }
        let found = std::fs::read_to_string(&path)?;
        ensure!(found == rendered, "{} is stale: run `make bless` and review the difference", path.display());
    }
    Ok(())
}

/// Names and selectors must not change in an upgrade, because selectors are immutable and other objects refer to the names.
#[test]
fn chart_keeps_names_and_selectors_of_karpenter_release() -> Result<()> {
    let rows: [(&[&str], &str, &str); 4] = [
        (&[], "karpenter", "karpenter"),
        (&["--set=nameOverride=nodes"], "karpenter-nodes", "nodes"),
        (&["--set=fullnameOverride=kept"], "kept", "karpenter"),
        (&["--set=nameOverride=karp", "--set=serviceAccount.name=own"], "karpenter", "karp"),
    ];
    for (given, full, name) in rows {
        let objects = render(Version::Four, &[&super::LEAST[..], given].concat())?;
        let deployment = super::object(&objects, "Deployment", full)?;
        let selector = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/instance": "karpenter"});
        ensure!(deployment["spec"]["selector"]["matchLabels"] == selector, "{given:?}: {deployment}");
        ensure!(super::object(&objects, "Service", full)?["spec"]["selector"] == selector, "{given:?}");
        ensure!(
            super::object(&objects, "PodDisruptionBudget", "karpenter")?["spec"]["selector"]["matchLabels"] == selector
        );
        let roles = [
            ("ClusterRole", ""),
            ("ClusterRole", "-core"),
            ("ClusterRole", "-admin"),
            ("Role", ""),
            ("Role", "-dns"),
            ("RoleBinding", "-dns"),
        ];
        for (kind, suffix) in roles {
            super::object(&objects, kind, &format!("{full}{suffix}"))?;
        }
    }
    Ok(())
}

/// The controller may read one Service of kube-system, in whatever namespace the release is, and no other.
#[test]
fn chart_role_reads_only_the_service_of_cluster_dns() -> Result<()> {
    for namespace in ["kube-system", "nodes"] {
        let objects = render(Version::Four, &[&super::LEAST[..], &["--namespace", namespace]].concat())?;
        let role = super::object(&objects, "Role", "karpenter-dns")?;
        let rule =
            json!({"apiGroups": [""], "resources": ["services"], "resourceNames": ["kube-dns"], "verbs": ["get"]});
        ensure!(role["metadata"]["namespace"] == "kube-system" && role["rules"] == json!([rule]), "{role}");
        let binding = super::object(&objects, "RoleBinding", "karpenter-dns")?;
        ensure!(binding["metadata"]["namespace"] == "kube-system", "{binding}");
        ensure!(binding["roleRef"]["name"] == "karpenter-dns" && binding["roleRef"]["kind"] == "Role", "{binding}");
        let subject = json!([{"kind": "ServiceAccount", "name": "karpenter", "namespace": namespace}]);
        ensure!(binding["subjects"] == subject, "{binding}");
    }
    Ok(())
}

#[test]
fn chart_adds_selector_to_terms_without_one() -> Result<()> {
    let of_others = r#"--set-json=affinity.podAffinity={"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight":1,"podAffinityTerm":{"topologyKey":"a","labelSelector":{"matchLabels":{"app":"b"}}}},
         {"weight":2,"podAffinityTerm":{"topologyKey":"c"}}]}"#;
    let objects = render(Version::Four, &[&super::LEAST[..], &[of_others]].concat())?;
    let pod = &super::object(&objects, "Deployment", "karpenter")?["spec"]["template"]["spec"];
    let own =
        json!({"matchLabels": {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}});
    let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    ensure!(apart["labelSelector"] == own && apart["topologyKey"] == "kubernetes.io/hostname", "{apart}");
    ensure!(pod["topologySpreadConstraints"][0]["labelSelector"] == own, "{}", pod["topologySpreadConstraints"]);
    let near = &pod["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    ensure!(near[0]["podAffinityTerm"]["labelSelector"] == json!({"matchLabels": {"app": "b"}}), "{near}");
    ensure!(near[1]["weight"] == 2 && near[1]["podAffinityTerm"]["labelSelector"] == own, "{near}");
    ensure!(pod["affinity"]["nodeAffinity"].is_object(), "the other kinds stay: {}", pod["affinity"]);
    Ok(())
}

/// Every value of the user appears in the rendered objects.
#[test]
fn chart_renders_existing_karpenter_values_into_pod() -> Result<()> {
    let existing = super::existing();
    let objects = render(Version::Four, &existing.each_ref().map(String::as_str))?;
    let deployment = super::object(&objects, "Deployment", "karpenter")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let main = &pod["containers"][0];
    ensure!(main["image"] == format!("registry.example/kerf:{}", env!("CARGO_PKG_VERSION")), "{}", main["image"]);
    ensure!(main["resources"]["limits"]["memory"] == "1Gi" && main["envFrom"][0]["configMapRef"]["name"] == "more");
    ensure!(pod["containers"][1]["volumeMounts"] == json!([{"name": "notes", "mountPath": "/notes"}]), "{pod}");
    ensure!(pod["volumes"][0]["name"] == "notes" && pod["imagePullSecrets"][0]["name"] == "mirror", "{pod}");
    ensure!(pod["dnsPolicy"] == "Default" && pod["terminationGracePeriodSeconds"] == 60, "{pod}");
    ensure!(pod["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "ScheduleAnyway", "{pod}");
    ensure!(deployment["metadata"]["labels"]["team"] == "platform", "{deployment}");
    ensure!(deployment["spec"]["template"]["metadata"]["labels"]["cost-center"] == "1234", "{deployment}");
    let account = super::object(&objects, "ServiceAccount", "karpenter")?;
    let annotations = &account["metadata"]["annotations"];
    ensure!(annotations["eks.amazonaws.com/role-arn"] == "arn:aws:iam::123456789012:role/karpenter-prod", "{account}");
    ensure!(annotations["example.com/owner"] == "platform" && account["automountServiceAccountToken"] == false);
    let rules = super::object(&objects, "ClusterRole", "karpenter")?["rules"].to_string();
    ensure!(rules.contains("reports"), "{rules}");
    Ok(())
}

#[test]
fn chart_names_image_by_digest_when_digest_is_set() -> Result<()> {
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let given = format!("--set=kerf.image.digest={digest}");
    let objects = render(Version::Four, &[&super::LEAST[..], &[&given, "--set-string=kerf.image.tag=9"]].concat())?;
    let deployment = super::object(&objects, "Deployment", "karpenter")?;
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    ensure!(*image == format!("registry.example/kerf@{digest}"), "{image}");
    Ok(())
}

#[test]
fn notes_template_lists_names_of_all_values() -> Result<()> {
    let text = std::fs::read_to_string(Helm::chart("chart").join("values.yaml"))?;
    let values: Value = serde_saphyr::from_str(&text)?;
    let notes = std::fs::read_to_string(Helm::chart("chart").join("templates/_notes.tpl"))?;
    for (at, value) in [("", &values), ("controller", &values["controller"]), ("settings", &values["settings"])] {
        let names: BTreeSet<String> = value.as_object().context("no map")?.keys().cloned().collect();
        let line = notes.lines().find(|line| line.trim_start().starts_with(&format!("{at:?} (list")));
        let quoted: Vec<&str> = line.with_context(|| format!("no list for {at:?}"))?.split('"').collect();
        let known: BTreeSet<String> =
            quoted.chunks(2).skip(1).filter_map(|pair| pair.get(1)).map(|&one| one.to_owned()).collect();
        ensure!(names == known, "values at {at:?} are {names:?}, the notes know {known:?}");
    }
    Ok(())
}
