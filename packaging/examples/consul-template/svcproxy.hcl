# consul-template -config /etc/consul-template.d/svcproxy.hcl
#
# It renders the table of services from Consul's healthy instances, renames it into its place, and, if it is not as it
# was, gives it to svcproxy. A refused table leaves the last good one served, and ends consul-template with the error:
# let systemd restart it.
template {
  source          = "/etc/consul-template.d/web.toml.ctmpl"
  destination     = "/var/lib/consul-template/web.toml"
  perms           = 0640
  command         = ["svcproxy", "table", "set", "web", "/var/lib/consul-template/web.toml"]
  command_timeout = "30s"

  # An instance that comes and goes is no two tables.
  wait {
    min = "1s"
    max = "5s"
  }
}
