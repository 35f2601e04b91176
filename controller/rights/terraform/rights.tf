# Generated from crates/cloud/src/policy by `make bless`: policies and event rules.

locals {
  node_policies = compact([
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    var.nodes_run_vpc_cni ? "AmazonEKS_CNI_Policy" : "",
    var.session_manager ? "AmazonSSMManagedInstanceCore" : "",
  ])

  policies = toset(compact([
    "KarpenterControllerNodeLifecyclePolicy",
    "KarpenterControllerIAMIntegrationPolicy",
    "KarpenterControllerEKSIntegrationPolicy",
    var.interruption_queue ? "KarpenterControllerInterruptionPolicy" : "",
    var.zonal_shift ? "KarpenterControllerZonalShiftPolicy" : "",
    "KarpenterControllerResourceDiscoveryPolicy",
  ]))

  retention = 300

  rules = {
    ScheduledChangeRule                 = "{\"detail\":{\"eventTypeCategory\":[\"scheduledChange\"],\"service\":[\"EC2\"]},\"detail-type\":[\"AWS Health Event\"],\"source\":[\"aws.health\"]}"
    SpotInterruptionRule                = "{\"detail-type\":[\"EC2 Spot Instance Interruption Warning\"],\"source\":[\"aws.ec2\"]}"
    RebalanceRule                       = "{\"detail-type\":[\"EC2 Instance Rebalance Recommendation\"],\"source\":[\"aws.ec2\"]}"
    InstanceStateChangeRule             = "{\"detail\":{\"state\":[\"stopping\",\"stopped\",\"shutting-down\",\"terminated\"]},\"detail-type\":[\"EC2 Instance State-change Notification\"],\"source\":[\"aws.ec2\"]}"
    CapacityReservationInterruptionRule = "{\"detail-type\":[\"EC2 Capacity Reservation Instance Interruption Warning\"],\"source\":[\"aws.ec2\"]}"
  }
}
