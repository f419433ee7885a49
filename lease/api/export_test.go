package api

// SpeakJSON makes a client exchange in JSON, as programs of others do.
func SpeakJSON(c *Client) *Client {
	c.json = true
	return c
}
