"""Set-up of a machine: what is there in, the steps that make it ready out."""
