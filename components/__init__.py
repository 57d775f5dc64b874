"""The Pulumi components: the AWS and Kubernetes objects that we want to exist, and nothing that runs."""
