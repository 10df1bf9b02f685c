// Gotfe calls one server with HashiCorp's client and prints an answer for each step: "name: what came, or the error".
// Arguments: the server's address, an organisation, a folder with code. TFE_TOKEN is the token.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tfe "github.com/hashicorp/go-tfe"
)

var (
	ctx    = context.Background()
	client *tfe.Client
	org    string
)

// step prints what a call returned, in one line.
func step[T any](name string, show func(T) string, answer T, err error) T {
	if err != nil {
		fmt.Printf("%s: error: %s\n", name, strings.Join(strings.Fields(err.Error()), " "))
	} else {
		fmt.Printf("%s: %s\n", name, show(answer))
	}
	return answer
}

func done(name string, err error) { step(name, func(string) string { return "done" }, "", err) }

func main() {
	var err error
	client, err = tfe.NewClient(&tfe.Config{Address: os.Args[1], BasePath: "/functions/v1/terraform/api/v2/"})
	if err != nil {
		fmt.Println("client: error:", err)
		os.Exit(1)
	}
	org = os.Args[2]
	organization()
	workspace := workspaces()
	variables(workspace.ID)
	locks(workspace.ID)
	applied := runs(workspace, os.Args[3])
	states(workspace.ID)
	if applied {
		destroyed(workspace, os.Args[3])
	}
	refused(workspace)
	done("workspace safe delete", client.Workspaces.SafeDeleteByID(ctx, workspace.ID))
	done("workspace delete", client.Workspaces.Delete(ctx, org, "gotfe.second"))
}

func organization() {
	found, err := client.Organizations.Read(ctx, org)
	step("organization read", func(o *tfe.Organization) string { return o.Name }, found, err)
	entitlements, err := client.Organizations.ReadEntitlements(ctx, org)
	step("entitlements", func(e *tfe.Entitlements) string { return fmt.Sprint(e.Operations, e.StateStorage) }, entitlements, err)
	project, err := client.Projects.Create(ctx, org, tfe.ProjectCreateOptions{Name: "gotfe"})
	step("project create", func(p *tfe.Project) string { return p.Name }, project, err)
	projects, err := client.Projects.List(ctx, org, &tfe.ProjectListOptions{Name: "gotfe"})
	step("project list", func(p *tfe.ProjectList) string { return fmt.Sprint(len(p.Items)) }, projects, err)
}

func workspaces() *tfe.Workspace {
	made, err := client.Workspaces.Create(ctx, org, tfe.WorkspaceCreateOptions{Name: tfe.String("gotfe.first")})
	step("workspace create", func(w *tfe.Workspace) string { return w.Name }, made, err)
	_, err = client.Workspaces.Create(ctx, org, tfe.WorkspaceCreateOptions{Name: tfe.String("gotfe.second")})
	done("workspace create another", err)
	read, err := client.Workspaces.Read(ctx, org, "gotfe.first")
	step("workspace read", func(w *tfe.Workspace) string { return fmt.Sprint(w.ExecutionMode, " ", w.Permissions.CanQueueApply) }, read, err)
	listed, err := client.Workspaces.List(ctx, org, &tfe.WorkspaceListOptions{Tags: "gotfe"})
	step("workspace list", func(w *tfe.WorkspaceList) string { return fmt.Sprint(w.TotalCount) }, listed, err)
	changed, err := client.Workspaces.UpdateByID(ctx, made.ID, tfe.WorkspaceUpdateOptions{Description: tfe.String("by go-tfe")})
	step("workspace update", func(w *tfe.Workspace) string { return w.Description }, changed, err)
	return made
}

func variables(id string) {
	made, err := client.Variables.Create(ctx, id, tfe.VariableCreateOptions{
		Key: tfe.String("who"), Value: tfe.String("go-tfe"), Category: tfe.Category(tfe.CategoryTerraform),
	})
	step("variable create", func(v *tfe.Variable) string { return v.Value }, made, err)
	_, err = client.Variables.Create(ctx, id, tfe.VariableCreateOptions{
		Key: tfe.String("secret"), Value: tfe.String("x"), Category: tfe.Category(tfe.CategoryEnv), Sensitive: tfe.Bool(true),
	})
	done("variable create sensitive", err)
	if made == nil {
		return
	}
	changed, err := client.Variables.Update(ctx, id, made.ID, tfe.VariableUpdateOptions{Value: tfe.String("you")})
	step("variable update", func(v *tfe.Variable) string { return v.Value }, changed, err)
	listed, err := client.Variables.List(ctx, id, nil)
	step("variable list", func(v *tfe.VariableList) string { return fmt.Sprint(len(v.Items)) }, listed, err)
}

func locks(id string) {
	locked, err := client.Workspaces.Lock(ctx, id, tfe.WorkspaceLockOptions{Reason: tfe.String("busy")})
	step("lock", func(w *tfe.Workspace) string { return fmt.Sprint(w.Locked) }, locked, err)
	_, err = client.Workspaces.Lock(ctx, id, tfe.WorkspaceLockOptions{})
	done("lock again", err)
	unlocked, err := client.Workspaces.Unlock(ctx, id)
	step("unlock", func(w *tfe.Workspace) string { return fmt.Sprint(w.Locked) }, unlocked, err)
}

// settled waits until a run needs somebody, or is over.
func settled(id string) *tfe.Run {
	for tries := 0; tries < 1200; tries++ {
		run, err := client.Runs.Read(ctx, id)
		if err != nil {
			fmt.Println("run read: error:", err)
			os.Exit(1)
		}
		switch run.Status {
		case tfe.RunPlanned, tfe.RunPlannedAndFinished, tfe.RunApplied, tfe.RunErrored, tfe.RunCanceled, tfe.RunDiscarded:
			return run
		}
		time.Sleep(250 * time.Millisecond)
	}
	fmt.Println("run: error: it does not end")
	os.Exit(1)
	return nil
}

func plan(workspace *tfe.Workspace, options tfe.RunCreateOptions) *tfe.Run {
	options.Workspace = workspace
	run, err := client.Runs.Create(ctx, options)
	if err != nil {
		fmt.Println("run create: error:", err)
		os.Exit(1)
	}
	return settled(run.ID)
}

func logged(name string, reader io.Reader, err error) {
	text := []byte{}
	if err == nil {
		text, err = io.ReadAll(reader)
	}
	step(name, func(t []byte) string { return strings.Join(strings.Fields(string(t)), " ") }, text, err)
}

func upload(id, folder string) *tfe.ConfigurationVersion {
	made, err := client.ConfigurationVersions.Create(ctx, id, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
	step("upload create", func(v *tfe.ConfigurationVersion) string { return string(v.Status) }, made, err)
	done("upload", client.ConfigurationVersions.Upload(ctx, made.UploadURL, folder))
	read, err := client.ConfigurationVersions.Read(ctx, made.ID)
	step("upload read", func(v *tfe.ConfigurationVersion) string { return string(v.Status) }, read, err)
	return made
}

func runs(workspace *tfe.Workspace, folder string) bool {
	run := plan(workspace, tfe.RunCreateOptions{ConfigurationVersion: upload(workspace.ID, folder), Message: tfe.String("from go-tfe")})
	step("run", func(r *tfe.Run) string { return fmt.Sprint(r.Status, " ", r.Actions.IsConfirmable, " ", r.Message) }, run, nil)
	planned, err := client.Plans.Read(ctx, run.Plan.ID)
	step("plan", func(p *tfe.Plan) string { return fmt.Sprint(p.Status, " ", p.ResourceAdditions) }, planned, err)
	log, err := client.Plans.Logs(ctx, run.Plan.ID)
	logged("plan log", log, err)
	done("run apply", client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{Comment: tfe.String("go")}))
	run = settled(run.ID)
	step("run applied", func(r *tfe.Run) string { return string(r.Status) }, run, nil)
	log, err = client.Applies.Logs(ctx, run.Apply.ID)
	logged("apply log", log, err)
	listed, err := client.Runs.List(ctx, workspace.ID, nil)
	step("run list", func(l *tfe.RunList) string { return fmt.Sprint(len(l.Items)) }, listed, err)
	done("run apply again", client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	return run.Status == tfe.RunApplied
}

func states(id string) {
	current, err := client.StateVersions.ReadCurrent(ctx, id)
	step("state current", func(s *tfe.StateVersion) string { return fmt.Sprint(s.Serial > 0, s.DownloadURL != "") }, current, err)
	if err == nil {
		body, err := client.StateVersions.Download(ctx, current.DownloadURL)
		step("state download", func(b []byte) string { return fmt.Sprint(strings.Contains(string(b), "\"lineage\"")) }, body, err)
		read, err := client.StateVersions.Read(ctx, current.ID)
		step("state read", func(s *tfe.StateVersion) string { return fmt.Sprint(s.Serial == current.Serial) }, read, err)
	}
	outputs, err := client.StateVersionOutputs.ReadCurrent(ctx, id)
	step("outputs", func(o *tfe.StateVersionOutputsList) string {
		found := []string{}
		for _, each := range o.Items {
			found = append(found, fmt.Sprint(each.Name, "=", each.Value))
		}
		return strings.Join(found, " ")
	}, outputs, err)
}

func destroyed(workspace *tfe.Workspace, folder string) {
	_, err := client.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: workspace, IsDestroy: tfe.Bool(true)})
	done("run without an upload", err)
	run := plan(workspace, tfe.RunCreateOptions{IsDestroy: tfe.Bool(true), ConfigurationVersion: upload(workspace.ID, folder)})
	step("destroy planned", func(r *tfe.Run) string { return fmt.Sprint(r.Status, " ", r.IsDestroy) }, run, nil)
	done("run discard", client.Runs.Discard(ctx, run.ID, tfe.RunDiscardOptions{Comment: tfe.String("not today")}))
	run = settled(run.ID)
	step("run discarded", func(r *tfe.Run) string {
		return fmt.Sprint(r.Status, " ", r.Actions.IsDiscardable, " ", r.Actions.IsConfirmable, " ", time.Since(r.StatusTimestamps.DiscardedAt) < time.Hour)
	}, run, nil)
	done("run discard again", client.Runs.Discard(ctx, run.ID, tfe.RunDiscardOptions{}))
	done("run apply discarded", client.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	done("workspace safe delete with resources", client.Workspaces.SafeDeleteByID(ctx, workspace.ID))
	run = plan(workspace, tfe.RunCreateOptions{IsDestroy: tfe.Bool(true), AutoApply: tfe.Bool(true), ConfigurationVersion: upload(workspace.ID, folder)})
	step("destroy applied", func(r *tfe.Run) string { return string(r.Status) }, run, nil)
}

// refused calls what is not served: each answer must be an error of the client's own kinds, not a crash.
func refused(workspace *tfe.Workspace) {
	_, err := client.Workspaces.UpdateByID(ctx, workspace.ID, tfe.WorkspaceUpdateOptions{ExecutionMode: tfe.String("local")})
	done("refused execution mode", err)
	_, err = client.Organizations.Create(ctx, tfe.OrganizationCreateOptions{Name: tfe.String("new"), Email: tfe.String("a@example.org")})
	done("refused organization create", err)
	_, err = client.Teams.List(ctx, org, nil)
	done("refused teams", err)
	_, err = client.PolicySets.List(ctx, org, nil)
	done("refused policy sets", err)
	_, err = client.RegistryModules.List(ctx, org, nil)
	done("refused registry", err)
	_, err = client.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: workspace, Refresh: tfe.Bool(false)})
	done("refused run without refresh", err)
	_, err = client.Workspaces.Read(ctx, org, "gotfe.unknown")
	done("refused unknown workspace", err)
	_, err = client.Plans.ReadJSONOutput(ctx, "plan-1")
	done("refused plan as JSON", err)
}
