# Shared by the Makefiles that `sam build` calls; it runs them in a copy of their folder and sets ARTIFACTS_DIR.
# The defaults are the template's: override them together with PythonRuntime and Architecture.

BUILD_PYTHON_VERSION ?= 3.13
BUILD_ARCHITECTURE ?= arm64
PYTHON ?= python3

# Compiled files of another Python version are ignored by the runtime, so only the target's own will do. They are
# unchecked, because packaging loses the time stamps that a checked one compares.
define compile
	@find "$(ARTIFACTS_DIR)" -name __pycache__ -prune -exec rm -r {} +
	@if python$(BUILD_PYTHON_VERSION) -c '' 2>/dev/null; then \
		python$(BUILD_PYTHON_VERSION) -m compileall -q --invalidation-mode unchecked-hash -s "$(ARTIFACTS_DIR)" "$(ARTIFACTS_DIR)"; \
	else \
		echo "$@: no python$(BUILD_PYTHON_VERSION) here, so no compiled files: cold starts take several times longer" >&2; \
	fi
endef
