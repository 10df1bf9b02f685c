// A Vault in memory with what tests need of it: JWT sign-in and key-value secrets. The whole program does not compile: its own go.mod
// replaces the SDK by a folder that the published module does not contain, and no published SDK fits every plug-in.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/hashicorp/go-hclog"
	jwt "github.com/hashicorp/vault-plugin-auth-jwt"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/helper/namespace"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

type noPlugins struct{}

func (noPlugins) Contains(string, consts.PluginType) bool { return false }
func (noPlugins) Get(string, consts.PluginType) (func() (interface{}, error), bool) {
	return nil, false
}
func (noPlugins) Keys(consts.PluginType) []string { return nil }
func (noPlugins) DeprecationStatus(string, consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, true
}
func (noPlugins) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// serve ADDRESS ROOT-TOKEN
func main() {
	if len(os.Args) != 3 {
		os.Stdout.WriteString("vault ADDRESS ROOT-TOKEN\n")
		return
	}
	logger := hclog.New(&hclog.LoggerOptions{Level: hclog.Info})
	storage, err := inmem.NewInmem(nil, logger)
	must(err)
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical:           storage,
		DisableMlock:       true,
		Logger:             logger,
		BuiltinRegistry:    noPlugins{},
		LogicalBackends:    map[string]logical.Factory{"kv": kv.Factory},
		CredentialBackends: map[string]logical.Factory{"jwt": jwt.Factory},
	})
	must(err)
	ctx := context.Background()
	shares := &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}
	made, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: shares, RecoveryConfig: shares})
	must(err)
	_, err = core.Unseal(made.SecretShares[0])
	must(err)
	_, err = core.HandleRequest(namespace.RootContext(ctx), &logical.Request{
		Operation: logical.UpdateOperation, Path: "auth/token/create", ClientToken: made.RootToken,
		Data: map[string]interface{}{"id": os.Args[2], "policies": []string{"root"}, "no_parent": true},
	})
	must(err)
	properties := &vault.HandlerProperties{Core: core, ListenerConfig: &configutil.Listener{}}
	must(http.ListenAndServe(os.Args[1], vaulthttp.Handler.Handler(properties)))
}
