"""OpenTofu, Terraform and Pulumi: found, checked, driven."""
