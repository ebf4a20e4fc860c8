/** A step graph in words: the same facts as the drawing, for reading, searching and screen readers. */
import { durationText } from '../core/time.ts';
import type { StepGraph } from '../core/wire.ts';
import { StatusBadge } from '../parts/status.tsx';

export function GraphTable({ graph, onChoose }: { graph: StepGraph; onChoose: (id: string) => void }) {
  const ran = graph.nodes.some((node) => node.state !== null);
  return (
    <div class="scroll-x">
      <table class="list">
        <caption class="visually-hidden">Steps and where they lead</caption>
        <thead>
          <tr>
            <th>Step</th>
            <th>Tools</th>
            {ran && <th>Status</th>}
            {ran && <th class="number">Duration</th>}
            <th>Leads to</th>
          </tr>
        </thead>
        <tbody>
          {graph.nodes.map((node) => (
            <tr key={node.id}>
              <td>
                <button type="button" class="button quiet tiny" onClick={() => onChoose(node.id)}>
                  {node.step}
                </button>
                {node.id === graph.entry && <span class="soft small"> entry</span>}
              </td>
              <td>
                {node.kinds.join(', ')}
                {node.loop !== null && ' (loop)'}
              </td>
              {ran && (
                <td>
                  {node.state === null ? (
                    <span class="soft">not reached</span>
                  ) : (
                    <StatusBadge status={node.state.status} />
                  )}
                </td>
              )}
              {ran && <td class="number">{durationText(node.state?.duration_ms ?? null)}</td>}
              <td>
                {graph.edges
                  .filter((edge) => edge.from === node.id)
                  .map((edge) => (
                    <span key={edge.id} class="lead-to">
                      {edge.to}
                      {edge.when !== null && <code class="small"> when {edge.when}</code>}
                      {(edge.taken ?? 0) > 0 && <strong> taken</strong>}
                    </span>
                  ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
