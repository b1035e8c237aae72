//! Running pods, as a kubelet does.

use k8s_cri::v1;

use crate::{Client, Error};

/// What a command in a container printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Client {
    /// What the runtime says of itself, as `NetworkReady`.
    ///
    /// # Errors
    /// It gives no answer.
    pub fn conditions(&mut self) -> Result<Vec<v1::RuntimeCondition>, Error> {
        let answer = self.call("Status", async |service| {
            service.status(v1::StatusRequest::default()).await
        })?;
        Ok(answer.status.unwrap_or_default().conditions)
    }

    /// Makes a sandbox and its network; its id.
    ///
    /// # Errors
    /// The runtime's; then it has no such sandbox.
    pub fn run_sandbox(&mut self, config: &v1::PodSandboxConfig) -> Result<String, Error> {
        let request = v1::RunPodSandboxRequest {
            config: Some(config.clone()),
            ..v1::RunPodSandboxRequest::default()
        };
        let answer = self.call("RunPodSandbox", async |service| {
            service.run_pod_sandbox(request).await
        })?;
        Ok(answer.pod_sandbox_id)
    }

    /// What is known of a sandbox, its addresses among it.
    ///
    /// # Errors
    /// The runtime's; it has no such sandbox.
    pub fn sandbox_status(&mut self, id: &str) -> Result<v1::PodSandboxStatus, Error> {
        let request = v1::PodSandboxStatusRequest {
            pod_sandbox_id: id.to_owned(),
            verbose: false,
        };
        let answer = self.call("PodSandboxStatus", async |service| {
            service.pod_sandbox_status(request).await
        })?;
        Ok(answer.status.unwrap_or_default())
    }

    /// Ends what runs in a sandbox and takes its network down. May be called again.
    ///
    /// # Errors
    /// The runtime's.
    pub fn stop_sandbox(&mut self, id: &str) -> Result<(), Error> {
        let request = v1::StopPodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        let answer = self.call("StopPodSandbox", async |service| {
            service.stop_pod_sandbox(request).await
        });
        answer.map(|_| ())
    }

    /// Removes a sandbox. May be called again.
    ///
    /// # Errors
    /// The runtime's.
    pub fn remove_sandbox(&mut self, id: &str) -> Result<(), Error> {
        let request = v1::RemovePodSandboxRequest {
            pod_sandbox_id: id.to_owned(),
        };
        let answer = self.call("RemovePodSandbox", async |service| {
            service.remove_pod_sandbox(request).await
        });
        answer.map(|_| ())
    }

    /// Makes a container in a sandbox, which was made with `pod`, and starts it; its id.
    ///
    /// # Errors
    /// The runtime's.
    pub fn run_container(
        &mut self,
        sandbox: &str,
        container: v1::ContainerConfig,
        pod: &v1::PodSandboxConfig,
    ) -> Result<String, Error> {
        let request = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(container),
            sandbox_config: Some(pod.clone()),
        };
        let answer = self.call("CreateContainer", async |service| {
            service.create_container(request).await
        })?;
        let id = answer.container_id;
        let request = v1::StartContainerRequest {
            container_id: id.clone(),
        };
        self.call("StartContainer", async |service| {
            service.start_container(request).await
        })?;
        Ok(id)
    }

    /// Runs a command in a container to its end.
    ///
    /// # Errors
    /// The runtime's; that the command fails is none.
    pub fn exec(&mut self, container: &str, command: &[&str]) -> Result<Output, Error> {
        let request = v1::ExecSyncRequest {
            container_id: container.to_owned(),
            cmd: command.iter().map(|&word| word.to_owned()).collect(),
            // The client's own limit counts.
            timeout: 0,
        };
        let answer = self.call("ExecSync", async |service| service.exec_sync(request).await)?;
        Ok(Output {
            status: answer.exit_code,
            stdout: answer.stdout,
            stderr: answer.stderr,
        })
    }
}
