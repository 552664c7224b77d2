"""Decisions about CronJobs: when a Job is due, and which Jobs are kept."""
