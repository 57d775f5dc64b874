"""Edge: EC2, EKS, SSM, SQS and Pricing behind the CloudProvider protocol."""
