"""Sparkyard: tested vLLM images for the NVIDIA DGX Spark, built from one version matrix."""
