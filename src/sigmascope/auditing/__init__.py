"""Checks of one network and batch: is every activation seen, once, with its axes, and unchanged?"""
