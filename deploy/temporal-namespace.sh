#!/bin/sh
# Waits for Temporal's frontend and makes the namespace unless it exists.
set -eu
attempt=0
until temporal operator cluster health; do
  attempt=$((attempt + 1))
  [ "$attempt" -lt 60 ] || exit 1
  sleep 2
done
temporal operator namespace describe -n default || temporal operator namespace create -n default --retention 168h
