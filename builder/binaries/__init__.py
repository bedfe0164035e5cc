"""Readers for stage 5, gate: wheels and images in, facts about libraries and GPU code out.

Nothing here judges: what is damaged is a fact too. All reading has limits, since wheels and images
may come from anywhere.
"""
