<powershell>
[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'it''s' -APIServerEndpoint 'https://127.0.0.1:6443' -Base64ClusterCA 'aGVsbG8=' -KubeletExtraArgs '--node-labels="karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default,team=a" --register-with-taints="dedicated=gpu:NoSchedule,dedicated:NoExecute,karpenter.sh/unregistered:NoExecute" --max-pods=29' -DNSClusterIP '10.100.0.10'
</powershell>
