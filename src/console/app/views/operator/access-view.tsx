/** Who may sign links, and who may read numbers. */
import { PageHead } from '../../components/card.tsx';
import { KeysCard } from './keys-card.tsx';
import { TokensCard } from './tokens-card.tsx';

export function AccessView() {
  return (
    <>
      <PageHead
        title="Keys and tokens"
        about="Keys sign ad links; tokens open the API and this console. Each secret is shown once."
      />
      <TokensCard />
      <KeysCard />
    </>
  );
}
