"""Talking to an API server: the HTTPS transport, caches fed by watches, work queues, events."""
