local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do conditions[condition.type] = condition end
local function is_true(name) return conditions[name] ~= nil and conditions[name].status == "True" end

if status.observedGeneration ~= obj.metadata.generation then
  return {status="Progressing", message="waiting for the operator"}
end
if is_true("Stalled") then return {status="Degraded", message=conditions["Stalled"].message} end
if is_true("Ready") then return {status="Healthy", message=conditions["Ready"].message} end
if is_true("Reconciling") and conditions["Reconciling"].reason == "Suspended" then
  return {status="Suspended", message=conditions["Reconciling"].message}
end
return {status="Progressing", message=status.message}
