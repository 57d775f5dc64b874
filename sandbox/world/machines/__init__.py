"""The machines' side of the cluster: EC2 instances as kubelets, the cloud controller and the volume provisioner see
them."""
