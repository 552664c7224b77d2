"""Mutation runs: does any test notice when one expression of a package is wrong?"""
