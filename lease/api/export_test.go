package api

// SpeakJSON makes a client exchange in JSON, as programs of others do.
func SpeakJSON(c *Client) *Client {
	c.form = asJSON
	return c
}

// SpeakCompact makes a client exchange without a stream, as where there is none.
func SpeakCompact(c *Client) *Client {
	c.form = asCompact
	return c
}
