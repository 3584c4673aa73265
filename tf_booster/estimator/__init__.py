"""Where Estimator and MonitoredSession hand their finished graphs over."""
