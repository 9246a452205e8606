"""Real peers on a real network: one row per process, nobody in the middle. Needs `pip install 'covey[network]'`."""
