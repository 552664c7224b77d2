"""Devices that ResourceSlices offer and ResourceClaims ask for: counted for the engine, chosen one by one here."""
