"""The client side of the API: HTTPS transport, informers, work queues, events, leader election."""
