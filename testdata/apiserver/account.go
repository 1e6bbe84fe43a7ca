package apiserver

import "time"

// A svcproxy's account, as the RBAC manifest names it.
const accountNamespace, accountName = "kube-system", "svcproxy"

// Account gives svcproxy's service account the rights that the manifest says, and returns a token for
// it that is good for an hour.
func (c *Cluster) Account(manifest string) (token string, err error) {
	if err := c.Admin.Apply(manifest); err != nil {
		return "", err
	}
	return c.Token(time.Now().Add(time.Hour))
}

// Token is another token for svcproxy's account, good until then.
func (c *Cluster) Token(end time.Time) (string, error) {
	o, err := c.Admin.Find("v1", "ServiceAccount", accountNamespace, accountName)
	if err != nil {
		return "", err
	}
	return c.Mint.Token(accountNamespace, accountName, o.Metadata.UID, end)
}
