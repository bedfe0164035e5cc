"""Servers that stay: started from a recipe, watched until they answer rightly, switched, stopped.

The engine is the only memory: what a server is stands in the labels of its container, and also
that one is to take another's place. So nothing is lost when a command of ours is killed.
"""
